// Bookinfo's reviews: Spring MVC on Tomcat, which asks for ratings by RestTemplate.
package bookinfo;

import java.util.List;
import java.util.Map;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.autoconfigure.jdbc.DataSourceAutoConfiguration;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RestController;
import org.springframework.web.client.RestTemplate;

@SpringBootApplication(exclude = DataSourceAutoConfiguration.class)
@RestController
public class Reviews {
    private final RestTemplate rest = new RestTemplate();
    private final String ratings;

    Reviews(@Value("${RATINGS_URL}") String ratings) {
        this.ratings = ratings;
    }

    public static void main(String[] args) {
        SpringApplication.run(Reviews.class, args);
    }

    private static Object review(String reviewer, String text, Map<?, ?> stars) {
        return Map.of("reviewer", reviewer, "text", text, "rating", stars.get(reviewer));
    }

    @GetMapping("/reviews/{id}")
    Object reviews(@PathVariable String id) {
        Map<?, ?> stars = (Map<?, ?>) rest.getForObject(ratings + "/ratings/{id}", Map.class, id).get("ratings");
        return Map.of("id", id, "reviews", List.of(
                review("Reviewer1", "An extremely entertaining play.", stars),
                review("Reviewer2", "Absolutely fun.", stars)));
    }
}
