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

    @GetMapping("/reviews/{id}")
    Object reviews(@PathVariable String id) {
        Map<?, ?> stars = (Map<?, ?>) rest.getForObject(ratings + "/ratings/{id}", Map.class, id).get("ratings");
        return Map.of("id", id, "reviews", List.of(
                Map.of("reviewer", "Reviewer1", "text", "An extremely entertaining play.",
                        "rating", stars.get("Reviewer1")),
                Map.of("reviewer", "Reviewer2", "text", "Absolutely fun.", "rating", stars.get("Reviewer2"))));
    }
}
